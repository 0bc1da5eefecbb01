"""What the broker did and how fast, and how far every group was behind over weeks."""
