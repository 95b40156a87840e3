"""The page that shows a model as it learns: what it is told, and the page itself, for servers, runs and files."""
