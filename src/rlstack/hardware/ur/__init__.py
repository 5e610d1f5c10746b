"""Universal Robots' own interfaces: RTDE, the client interface and a program in URScript."""
