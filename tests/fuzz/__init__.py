"""Coverage-guided fuzzing of the text formats: ``python -m tests.fuzz.run --seconds 60``."""
