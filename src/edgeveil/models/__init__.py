"""The learner: models on our own sparse operators, one training loop, the presets of the papers."""
