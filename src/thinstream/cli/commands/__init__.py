"""The commands. A command is a function in the module of its name, or in a module of several small commands."""

#: The modules of small commands.
MODULES = {
    **dict.fromkeys(("convert", "shuffle", "split"), "data_files"),
    **dict.fromkeys(("export", "merge"), "model_files"),
    **dict.fromkeys(("evaluate", "explain", "predict", "diagnose"), "scoring"),
    **dict.fromkeys(("backup", "load", "models"), "server_tools"),
}
