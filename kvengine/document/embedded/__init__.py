"""Transfer configs inside of other files: manifests, scripts, command lines."""
