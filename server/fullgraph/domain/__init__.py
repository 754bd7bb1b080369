"""Value types that every part of the server uses: finding codes, findings, text positions,
phrases."""
