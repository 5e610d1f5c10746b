"""`rlstack excite`: a motion that tells a robot's numbers, chosen by what it would tell, and flown."""
