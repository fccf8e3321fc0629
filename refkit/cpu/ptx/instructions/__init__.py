"""PTX instructions by kind; every module of this folder is loaded, and registers what it emits."""
