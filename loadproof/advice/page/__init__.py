"""The plan as one self-contained page: verdict first, pictures, and a table beside each. Everything is predicted."""

from loadproof.advice.page.page import page_of

__all__ = ["page_of"]
