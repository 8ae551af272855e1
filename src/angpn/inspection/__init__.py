"""What is shown of a fitted classifier: figures as scikit-learn displays, and the report, a page for a browser.

The rooms above call these with their models; nothing here imports an estimator, and ``fitted_classifier`` says what is
read of one. A name is imported when it is first used, see ``__init__.pyi``, and matplotlib when a figure is drawn.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
