"""Selective prediction, calibration and conformal prediction sets. Arrays in, no torch."""
