//! Winning PoSt of 32 GiB sectors, as miners prove it: 66 challenges, 370,723 rows.
//!
//! No sector of 32 GiB is needed for it. A proof opens 66 of the tree's 2^30 leaves, so a tree of which no more is known
//! than what these openings show, the siblings along their paths, is as good; the siblings are random.

use std::collections::BTreeMap;

use anyhow::Result;
use filecoin_hashers::poseidon::PoseidonHasher;
use filecoin_hashers::{Domain, HashFunction, Hasher};
use filecoin_proofs::parameters::winning_post_setup_params;
use filecoin_proofs::{
    PoStConfig, PoStType, SECTOR_SIZE_32_GIB, SectorShape32GiB, WINNING_POST_CHALLENGE_COUNT,
    WINNING_POST_SECTOR_COUNT,
};
use generic_array::typenum::U8;
use rand::RngCore;
use storage_proofs_core::api_version::ApiVersion;
use storage_proofs_core::compound_proof::{CompoundProof, SetupParams};
use storage_proofs_core::merkle::{InclusionPath, MerkleProof, MerkleTreeTrait, PathElement};
use storage_proofs_core::util::NODE_SIZE;
use storage_proofs_post::fallback::{
    ChallengeRequirements, FallbackPoSt, FallbackPoStCircuit, FallbackPoStCompound, Proof,
    PublicInputs, PublicSector, SectorProof, generate_leaf_challenge, get_challenge_index,
};

use crate::statement::Statement;

type Tree = SectorShape32GiB;
type TreeProof = <Tree as MerkleTreeTrait>::Proof;
type Node = <PoseidonHasher as Hasher>::Domain;
type Hash = <PoseidonHasher as Hasher>::Function;

/// Children of every node of the tree: its 8 subtrees of 2^27 leaves have arity 8 too.
const ARITY: u64 = 8;

/// A proof of so many partitions, each of one sector: a Winning PoSt has one, and more are as many of them in one job.
pub fn statement(
    partitions: usize,
    rng: &mut impl RngCore,
) -> Result<Statement<FallbackPoStCircuit<Tree>>> {
    let config = PoStConfig {
        sector_size: SECTOR_SIZE_32_GIB.into(),
        challenge_count: WINNING_POST_CHALLENGE_COUNT,
        sector_count: WINNING_POST_SECTOR_COUNT,
        typ: PoStType::Winning,
        priority: false,
        // Later ones take the number of a challenge within its sector alone, and a Winning PoSt is 66 times one sector with
        // one challenge.
        api_version: ApiVersion::V1_1_0,
    };
    let public_params = FallbackPoStCompound::<Tree>::setup(&SetupParams {
        vanilla_params: winning_post_setup_params(&config)?,
        partitions: Some(partitions),
        priority: false,
    })?;
    let params = &public_params.vanilla_params;
    let leaves = params.sector_size / NODE_SIZE as u64;
    let randomness = Node::random(rng);

    let mut sectors = Vec::new();
    let mut vanilla_proofs = Vec::new();
    for partition in 0..partitions {
        let id = partition as u64;
        let challenge = |index| {
            let (version, count) = (params.api_version, params.challenge_count);
            let index = partition * params.sector_count + index;
            let index = get_challenge_index(version, index, count, 0);
            generate_leaf_challenge(params, randomness, id, index)
        };
        let challenges: Vec<u64> = (0..params.sector_count).map(challenge).collect();
        let tree = Opened::new(leaves, &challenges, rng);
        let (comm_c, comm_r_last) = (Node::random(rng), tree.root());
        let sector =
            |&leaf| SectorProof { inclusion_proofs: vec![tree.proof(leaf)], comm_c, comm_r_last };
        vanilla_proofs.push(Proof { sectors: challenges.iter().map(sector).collect() });
        let comm_r = Hash::hash2(&comm_c, &comm_r_last);
        let public = PublicSector { id: id.into(), comm_r };
        sectors.extend(std::iter::repeat_n(public, params.sector_count));
    }
    let public_inputs = PublicInputs { randomness, prover_id: Node::random(rng), sectors, k: None };
    let minimum_challenge_count = partitions * WINNING_POST_CHALLENGE_COUNT;
    Statement::new::<FallbackPoStCompound<Tree>, FallbackPoSt<'static, Tree>>(
        "winning-post",
        public_params,
        public_inputs,
        &vanilla_proofs,
        ChallengeRequirements { minimum_challenge_count },
    )
}

/// What a tree's openings show of it: for each level from the leaves up, the nodes on the paths and their siblings, by
/// their place in the level. The last level is the root.
struct Opened(Vec<BTreeMap<u64, Node>>);

impl Opened {
    /// A tree of random nodes with `leaves` leaves, a power of [`ARITY`], of which `opened` are opened.
    fn new(leaves: u64, opened: &[u64], rng: &mut impl RngCore) -> Self {
        let mut levels = Vec::new();
        let mut known: BTreeMap<u64, Node> =
            opened.iter().map(|leaf| (*leaf, Node::random(rng))).collect();
        let mut len = leaves;
        while len > 1 {
            let parents: Vec<u64> = known.keys().map(|place| place / ARITY).collect();
            let mut above = BTreeMap::new();
            for parent in parents {
                above.entry(parent).or_insert_with(|| {
                    let places = parent * ARITY..(parent + 1) * ARITY;
                    let children: Vec<Node> = places
                        .map(|place| *known.entry(place).or_insert_with(|| Node::random(rng)))
                        .collect();
                    parent_of(&children)
                });
            }
            levels.push(std::mem::replace(&mut known, above));
            len /= ARITY;
        }
        levels.push(known);
        Self(levels)
    }

    fn root(&self) -> Node {
        self.0[self.0.len() - 1][&0]
    }

    /// The path from a leaf that is opened to the root.
    fn proof(&self, leaf: u64) -> TreeProof {
        let mut place = leaf;
        let step = |level: &BTreeMap<u64, Node>| {
            let first = place / ARITY * ARITY;
            let siblings = (first..first + ARITY).filter(|other| *other != place);
            let element =
                (siblings.map(|sibling| level[&sibling]).collect(), (place - first) as usize);
            place /= ARITY;
            element
        };
        let path = self.0[..self.0.len() - 1].iter().map(step).collect();
        MerkleProof::from_parts(self.0[0][&leaf], self.root(), path)
    }
}

/// The hash of a node's eight children.
fn parent_of(children: &[Node]) -> Node {
    let path: InclusionPath<PoseidonHasher, U8> =
        vec![PathElement::from((children[1..].to_vec(), 0))].into();
    path.root(children[0])
}
