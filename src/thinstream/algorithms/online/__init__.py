"""The algorithms, one per file. A new file here is a new algorithm everywhere: see CONTRIBUTING.md."""
