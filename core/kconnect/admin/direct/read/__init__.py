"""What the internal topics hold: read as values, shown as documents, with secrets masked. Nothing here writes."""
