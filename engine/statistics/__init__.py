"""Statistics: traffic, latencies, and the lag of every group over weeks."""
