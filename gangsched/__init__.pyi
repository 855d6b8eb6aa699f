from gangsched.api import explain as explain
from gangsched.api import load as load
from gangsched.api import plan as plan
from gangsched.api import simulate as simulate

__version__: str
