"""The common topics: names, types, quality of service, and conversions between messages and arrays."""
