"""What is kept for how long: whole segments by age, size and room; topics by their own age."""
