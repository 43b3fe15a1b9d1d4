"""What all pages share: drawings, looks, the style sheet, and how figures and untrusted text are written."""
