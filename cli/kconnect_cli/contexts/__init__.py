"""Named clusters: the contexts file, and which worker a call is for."""
