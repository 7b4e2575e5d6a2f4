"""DISTED (Zhou 1987, section 3.3): as GLOBAL, but without a centre: each host sends its changes to
every other host itself.

So a host receives N - 1 messages a period where under GLOBAL it receives one, which is why the
thesis finds that DISTED gets worse as the cluster grows. The centre's keep-alive continues: it
tells who is alive.
"""

from lbd.policy.global_ import Global
from lbd.policy.view import Reporting


class Disted(Global):
    reporting = Reporting.EVERYBODY
