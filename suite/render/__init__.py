"""Records in; terminal, Markdown, CSV and SVG out. Nothing here measures."""
