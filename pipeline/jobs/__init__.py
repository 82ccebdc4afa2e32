"""The jobs, a module or a package each; `registry` lists them."""
