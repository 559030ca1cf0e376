"""The declarations: what a user can write, and nothing else."""
