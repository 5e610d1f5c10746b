"""`rlstack loop`: fly, record, identify, fine-tune, prove, and fly again."""
