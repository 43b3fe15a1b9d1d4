"""The plan as one self-contained page: verdict first, pictures, and a table beside each. Everything is predicted."""

from loadproof.advice.page.page import page_of, write_page

__all__ = ["page_of", "write_page"]
