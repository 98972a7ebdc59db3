import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny matrices on many threads are slow where other processes want the cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
