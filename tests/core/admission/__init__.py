"""Which pods form a gang, whose word counts, and what is told of gangs that are pending, admitted or refused."""
