"""State of one editor window: open files, settings, engines and findings."""
