"""What people and programs see: tables, JSON, pages, the live view of a worker."""
