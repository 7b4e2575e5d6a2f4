"""`lbd.joblib.register()`: runs joblib, and with it scikit-learn, on the hosts of the cluster.

lbd.joblib.register()
with joblib.parallel_config(backend="lbd"):
    search.fit(X, y)
"""

from lbd.python.joblib_backend import register as register
