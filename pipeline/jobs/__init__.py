"""The jobs, a module or a package each; `pipeline.cli` lists them."""
