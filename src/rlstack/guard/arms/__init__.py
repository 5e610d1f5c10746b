"""What the guard of an arm is made of: its limits, where its links are, and what may follow its last command."""
