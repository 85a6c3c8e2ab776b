"""What happened to a connector, as the records that are left of it tell. Pure."""
