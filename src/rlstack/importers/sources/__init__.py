"""What policies are imported from, one module each."""
