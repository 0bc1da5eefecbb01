"""Speed and endurance of a real server: `make bench` and `make soak`."""
