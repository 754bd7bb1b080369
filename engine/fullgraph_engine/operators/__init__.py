"""What the user's torch knows of its operators, and what a file adds to them."""
