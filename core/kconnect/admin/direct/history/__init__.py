"""What happened to a connector, according to its remaining records. Pure."""
