"""Files that try to do harm while an editor has them open."""
