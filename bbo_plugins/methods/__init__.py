"""The papers' methods: mathematics over plain arrays, without any tuning framework.

- :mod:`bbo_plugins.methods.uhe_bo`: hyperparameters by Bayesian optimization that may doubt its
  model (Ha et al.)
- :mod:`bbo_plugins.methods.go_ucb`: a network in place of the Gaussian process (Liu & Wang)
- :mod:`bbo_plugins.methods.bilbo`: problems of two levels (Chew, Nguyen & Low)
- :mod:`bbo_plugins.methods.regret_gap`: when to stop (Ishibashi et al.)
- :mod:`bbo_plugins.methods.inner_horizon`: how long each trial should train (Fu et al.)

Below them lie what a method is given and returns (:mod:`~bbo_plugins.methods.observations`), the
plain Gaussian-process step (:mod:`~bbo_plugins.methods.gp_bo`) and its steps for several objectives
(:mod:`~bbo_plugins.methods.multi_objective`), and what is done to the data first.
"""
