"""What the dashboard is told, and its page."""
