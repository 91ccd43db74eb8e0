"""The training loop, its candidate strategies, schedules and history."""
