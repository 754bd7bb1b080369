"""Small scripts that show one finding with torch alone."""
