"""Every algorithm against its naive twin."""
