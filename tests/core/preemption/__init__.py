"""Who has to leave: nobody in vain, and the search for victims part by part."""
