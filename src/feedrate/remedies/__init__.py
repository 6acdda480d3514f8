"""What mends memory growth: shared records, image files, seeds, a guard."""
