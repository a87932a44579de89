from unittest import mock

from keuka.spark import probe

# Stands for a session on a cluster; tests/cluster starts a real one.
spark = mock.MagicMock(session_id="demo")
with mock.patch.object(probe, "missing_on_executors", return_value="ModuleNotFoundError: No module named 'keuka'"):
    probe.require_on_executors(spark)
