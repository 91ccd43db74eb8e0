"""Out-of-distribution detection and drift detection."""
