r"""GO-UCB to the letter: Algorithm 1 with the settings of the paper's experiments.

The method in use, :mod:`bbo_plugins.methods.go_ucb`, is compared with it. The network has no prior
and no skip connection,

    f_w(x) = w_2ᵀ sigmoid(W_1 x + b_1) + b_2,

and sees points and values in their own units.

| symbol   | shape    | meaning                                                                   |
|----------|----------|---------------------------------------------------------------------------|
| w        | (d_w,)   | parameters: W_1 (h, d) by rows, b_1 (h,), w_2 (h,), b_2                   |
| n, T     |          | rounds of Phase I (uniform) and of Phase II (optimistic); n = √T          |
| ŵ_0      | (d_w,)   | Phase I's fit, Eq. (2): 2,000 steps of gradient descent at rate 1e-11     |
| λ        |          | √T log² T                                                                 |
| F        |          | bound on the values                                                       |
| β_t      |          | d_w³ F⁴ t/T                                                               |
| x_t      | (d,)     | 2,000 steps of gradient ascent over x and w at rate 1e-4, within Ball_t   |

The ball is kept in the dual: with J (t, d_w) the gradients g_i by rows and K = J Jᵀ, Woodbury's
identity turns Eqs. (3) and (5) into ŵ_t = ŵ_0 + Jᵀ(K + λI)⁻¹(z - J ŵ_0).

With ``exact=True`` Eq. (2) and step 5 of Phase II are solved by quasi-Newton methods, the maximum
over the ball by :func:`maximize_in_ball`; everything else stays the same.

Source: Liu & Wang (2023), "Global Optimization with Parametric Function Approximation", Algorithm
1, section 6 and appendix D.1.

The paper leaves open, and this file chooses: the weights before the oracle (uniform on ±1/√fan-in,
the default of the paper's framework); the batches of the stochastic gradient (all observations, at
most eight); the start of the ascent (a uniform point and the ball's center) and how it stays in the
ball (a step outside is drawn back towards the center); F (the largest absolute value of Phase I);
round 0, which Eqs. (3) and (4) have and Algorithm 1 has not (there is none here).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import optimize
from scipy.special import expit

from bbo_plugins.methods.go_ucb.regression import factorize, solve
from bbo_plugins.space.dimension import FloatArray
from benchmarks.common import peer
from benchmarks.common.peer import Floats, Peer, Points, Space

_ORACLE_STEPS, _ORACLE_RATE = 2000, 1e-11
_ASCENT_STEPS, _ASCENT_RATE = 2000, 1e-4
_EXACT_ROUNDS = 20  # alternations between x and w
_TOLERANCE = 1e-9  # relative rise at which these end
_BALL_TOLERANCE = 1e-12  # relative rise at which the search in the ball ends
_MAX_ASCENT = 200
_SHORTEST_STEP = 1e-6


@dataclass(frozen=True)
class PlainNetwork:
    """The paper's network, for one input at a time.

    Attributes:
        n_inputs: d.
        hidden_units: h.
    """

    n_inputs: int
    hidden_units: int

    @property
    def n_parameters(self) -> int:
        """d_w, the number of parameters."""
        return self.hidden_units * (self.n_inputs + 2) + 1

    def initial(self, rng: np.random.Generator) -> FloatArray:
        """Return random parameters (d_w,), each uniform on ±1/√(inputs of its layer)."""
        n_first = self.hidden_units * (self.n_inputs + 1)
        scale = np.full(self.n_parameters, 1.0 / math.sqrt(self.hidden_units))
        scale[:n_first] = 1.0 / math.sqrt(self.n_inputs)
        return scale * rng.uniform(-1.0, 1.0, self.n_parameters)

    def gradients(self, w: FloatArray, x: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return f_w(x), ∇_w f (d_w,) and ∇_x f (d,) at ``w`` (d_w,) and ``x`` (d,)."""
        h, d = self.hidden_units, self.n_inputs
        first, second = h * d, h * (d + 1)
        W_1, w_2 = w[:first].reshape(h, d), w[second:-1]
        A = expit(W_1 @ x + w[first:second])
        by_z = w_2 * A * (1.0 - A)
        by_w = np.empty(len(w))
        np.outer(by_z, x, out=by_w[:first].reshape(h, d))
        by_w[first:second] = by_z
        by_w[second:-1] = A
        by_w[-1] = 1.0
        return float(w_2 @ A + w[-1]), by_w, by_z @ W_1


@dataclass(frozen=True)
class DualBall:
    """The ball of Eqs. (3) to (6) from the gradients' Gram matrix; :meth:`from_history` builds one.

    Attributes:
        center: ŵ_t, shape (d_w,).
        gradients: J, shape (t, d_w).
        L: Lower Cholesky factor of K + λI, shape (t, t).
        regularization: λ.
        beta: β_t, the squared radius.
    """

    center: FloatArray
    gradients: FloatArray
    L: FloatArray
    regularization: float
    beta: float

    @classmethod
    def from_history(
        cls,
        gradients: FloatArray,
        targets: FloatArray,
        start: FloatArray,
        *,
        regularization: float,
        beta: float,
    ) -> Self:
        """Build the ball from the finished rounds.

        Args:
            gradients: J, shape (t, d_w).
            targets: z, see :func:`linear_targets`, shape (t,).
            start: ŵ_0, shape (d_w,).
            regularization: λ.
            beta: β_t.
        """
        L = factorize(gradients @ gradients.T, np.full(len(targets), regularization))  # Eq. (3)
        center = start + gradients.T @ solve(L, targets - gradients @ start)  # Eq. (5)
        return cls(center, gradients, L, regularization, beta)

    def precondition(self, gradients: FloatArray) -> FloatArray:
        """Return Σ_t⁻¹ g of ``gradients`` (m, d_w) as columns, shape (d_w, m)."""
        J = self.gradients
        return (gradients.T - J.T @ solve(self.L, J @ gradients.T)) / self.regularization

    def squared_length(self, step: FloatArray) -> float:
        """Return ‖step‖² in the norm of Σ_t of ``step`` (d_w,): up to β_t in the ball, Eq. (6)."""
        along = self.gradients @ step
        return float(along @ along + self.regularization * (step @ step))


def linear_targets(
    gradients: FloatArray, parameters: FloatArray, outputs: FloatArray, y: FloatArray
) -> FloatArray:
    """Return z (t,), the values of gᵀw in Eq. (4).

    Args:
        gradients: g_i, shape (t, d_w).
        parameters: ŵ_i, at which they were taken, shape (t, d_w).
        outputs: f_i, the model's values there, shape (t,).
        y: The values that were observed, shape (t,).
    """
    targets: FloatArray = np.einsum("ij,ij->i", gradients, parameters) + y - outputs  # Eq. (4)
    return targets


def maximize_in_ball(
    function: Callable[[FloatArray], tuple[float, FloatArray]], ball: DualBall
) -> tuple[float, FloatArray]:
    """Return a maximum of a nonlinear function over the ball, and the parameters (d_w,) of it.

    Frank & Wolfe's method: over a ball the linearized function has its maximum in closed form, and
    each step goes as far towards that point as it gains. From the linearized solution it rises to a
    stationary point; never below that solution or the center.

    Args:
        function: Returns the value at w (d_w,) and its gradient there (d_w,).
        ball: The ball.
    """

    def furthest(gradient: FloatArray) -> FloatArray:
        direction = ball.precondition(gradient[None, :])[:, 0]
        width = math.sqrt(max(float(gradient @ direction), 0.0))
        return ball.center + direction * (math.sqrt(ball.beta) / width if width > 0.0 else 0.0)

    w = ball.center
    value, gradient = function(w)
    for _ in range(_MAX_ASCENT):
        towards, step, before = furthest(gradient) - w, 1.0, value
        while step > _SHORTEST_STEP:
            moved_value, moved_gradient = function(w + step * towards)
            if moved_value > value:
                w, value, gradient = w + step * towards, moved_value, moved_gradient
                break
            step *= 0.5
        if value - before <= _BALL_TOLERANCE * max(abs(value), 1.0):
            break
    return value, w


class LiteralGOUCB:
    """Algorithm 1 as an ask-and-tell object that *maximizes*.

    Call :meth:`ask` and :meth:`tell` in turn, n + T times.

    Args:
        bounds: Lower and upper ends of the box, shape (d, 2).
        n_rounds: T, at least 2.
        rng: Source of Phase I, the weights before the oracle, and where the ascents start.
        n_startup: n, at least 1.
        hidden_units: h.
        value_bound: F; None for the largest absolute value in Phase I.
        exact: Whether Eq. (2) and step 5 of Phase II are solved instead of followed for the paper's
            numbers of steps.
    """

    def __init__(
        self,
        bounds: FloatArray,
        *,
        n_rounds: int,
        rng: np.random.Generator,
        n_startup: int,
        hidden_units: int = 25,
        value_bound: float | None = None,
        exact: bool = False,
    ) -> None:
        """Keep the arguments."""
        self._low, self._high = np.array(bounds, dtype=np.float64).T
        self._n_rounds, self._n_startup = n_rounds, n_startup
        self.network = PlainNetwork(len(self._low), hidden_units)
        self._bound, self._exact = value_bound, exact
        self._rng = rng
        self._seen: list[tuple[FloatArray, float]] = []  # Phase I
        self._start = np.empty(0)  # ŵ_0
        self._n_told = 0  # by suggest()
        self._history: list[tuple[FloatArray, FloatArray, float, float]] = []  # g_i, ŵ_i, f_i, y_i

    @property
    def regularization(self) -> float:
        """λ."""
        return math.sqrt(self._n_rounds) * math.log(self._n_rounds) ** 2

    def ball(self) -> DualBall:
        """Return Ball_t, t being 1 + the number of finished rounds of Phase II; Eqs. (3) to (6)."""
        t, d_w = len(self._history) + 1, self.network.n_parameters
        bound = self._bound
        if bound is None:
            bound = max(abs(y) for _, y in self._seen)
        beta = d_w**3 * bound**4 * t / self._n_rounds
        gradients = np.array([row[0] for row in self._history]).reshape(-1, d_w)
        parameters = np.array([row[1] for row in self._history]).reshape(-1, d_w)
        outputs, values = np.array([row[2:] for row in self._history]).reshape(-1, 2).T
        targets = linear_targets(gradients, parameters, outputs, values)
        return DualBall.from_history(
            gradients, targets, self._start, regularization=self.regularization, beta=beta
        )

    def ask(self) -> FloatArray:
        """Return the next point to evaluate, shape (d,)."""
        x: FloatArray = self._rng.uniform(self._low, self._high)
        if len(self._seen) < self._n_startup:
            return x
        ball = self.ball()
        return self._alternate(x, ball) if self._exact else self._ascend(x, ball)

    def tell(self, x: FloatArray, y: float) -> None:
        """Take the value ``y`` that was observed at ``x`` (d,)."""
        if len(self._seen) < self._n_startup:
            self._seen.append((x, y))
            if len(self._seen) == self._n_startup:
                self._start = self._oracle()
            return
        center = self.ball().center
        f, gradient, _ = self.network.gradients(center, x)
        self._history.append((gradient, center, f, y))

    def suggest(self, X: FloatArray, y: FloatArray) -> FloatArray:
        """Tell what has not been told yet of all points ``X`` (n, d) and values, and ask."""
        for x, value in zip(X[self._n_told :], y[self._n_told :].tolist(), strict=True):
            self.tell(x, value)
        self._n_told = len(y)
        return self.ask()

    def _oracle(self) -> FloatArray:
        """Return ŵ_0, Eq. (2)."""

        def loss(w: FloatArray) -> tuple[float, FloatArray]:
            """Mean squared error and its gradient."""
            total, slope = 0.0, np.zeros(len(w))
            for x, y in self._seen:
                f, by_w, _ = self.network.gradients(w, x)
                total += (f - y) ** 2
                slope += 2.0 * (f - y) * by_w
            return total / len(self._seen), slope / len(self._seen)

        w = self.network.initial(self._rng)
        if self._exact:
            fitted: FloatArray = optimize.minimize(loss, w, jac=True, method="L-BFGS-B").x
            return fitted
        for _ in range(_ORACLE_STEPS):
            w = w - _ORACLE_RATE * loss(w)[1]
        return w

    def _ascend(self, x: FloatArray, ball: DualBall) -> FloatArray:
        """Return the point (d,) after the paper's gradient ascent over x and w."""
        w = ball.center
        for _ in range(_ASCENT_STEPS):
            _, by_w, by_x = self.network.gradients(w, x)
            x = np.clip(x + _ASCENT_RATE * by_x, self._low, self._high)
            step = w + _ASCENT_RATE * by_w - ball.center
            outside = ball.squared_length(step) / ball.beta
            w = ball.center + step / math.sqrt(max(outside, 1.0))
        return x

    def _alternate(self, x: FloatArray, ball: DualBall) -> FloatArray:
        """Return a point (d,) where neither x nor w alone can raise f in the box and the ball."""
        best = -math.inf

        def of_w(w: FloatArray) -> tuple[float, FloatArray]:
            f, by_w, _ = self.network.gradients(w, x)
            return f, by_w

        def fall(x: FloatArray) -> tuple[float, FloatArray]:
            f, _, by_x = self.network.gradients(w, x)
            return -f, -by_x

        box = optimize.Bounds(self._low, self._high)
        for _ in range(_EXACT_ROUNDS):
            w = maximize_in_ball(of_w, ball)[1]
            found = optimize.minimize(fall, x, jac=True, method="L-BFGS-B", bounds=box)
            x, value = np.clip(found.x, self._low, self._high), -float(found.fun)
            if value - best <= _TOLERANCE * max(abs(value), 1.0):
                break
            best = value
        return x


class LiteralSampler(Peer):
    """The paper's Algorithm 1 with its printed settings, for one study of floats, minimized.

    The start-up points are the study's own first trials: uniform like the paper's Phase I, and the
    same ones for all entrants.
    """

    def __init__(self, *, seed: int, budget: int, n_startup_trials: int, exact: bool) -> None:
        """Keep the budget, of which ``n_startup_trials`` are Phase I."""
        super().__init__(seed=seed, n_startup_trials=1)
        self._settings: dict[str, Any] = {
            "n_rounds": max(budget - n_startup_trials, 2),
            "rng": np.random.default_rng(seed),
            "n_startup": n_startup_trials,
            "exact": exact,
        }
        self._method: LiteralGOUCB | None = None

    def suggest(self, y: Floats, points: Points, number: int, space: Space) -> dict[str, Any]:
        """Tell the method what it has not been told yet, and ask it."""
        del number
        if self._method is None:
            limits = np.array([peer.limits(at)[:2] for at in space.values()])
            self._method = LiteralGOUCB(limits, **self._settings)
        X = np.array([[point[name] for name in space] for point in points])
        return dict(zip(space, self._method.suggest(X, y).tolist(), strict=True))
