"""What a session knows between requests: texts, settings, findings."""
