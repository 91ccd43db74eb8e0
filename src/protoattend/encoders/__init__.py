"""Encoders: modules that map a batch of inputs to features `(B, out_features)`."""
